// What the library has: a layer, an optimizer and a loss, a page each.
#include <meshwork/extension.h>

namespace mine {

void add_pinball(meshwork::Catalog& catalog);
void add_sign_momentum(meshwork::Catalog& catalog);
void add_swish(meshwork::Catalog& catalog);

}  // namespace mine

MESHWORK_EXTENSION(catalog) {
  mine::add_pinball(catalog);
  mine::add_sign_momentum(catalog);
  mine::add_swish(catalog);
}
