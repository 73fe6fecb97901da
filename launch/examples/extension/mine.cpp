// What the library has: a layer, an initializer, a regularizer and a constraint, an optimizer, a loss, data
// sources, roles, a schedule of pipelines and a transport, a page each.
#include <meshwork/extension.h>

namespace mine {

void add_board(meshwork::Catalog& catalog);
void add_fourth_powers(meshwork::Catalog& catalog);
void add_oscillator(meshwork::Catalog& catalog);
void add_pinball(meshwork::Catalog& catalog);
void add_ring_all_reduce(meshwork::Catalog& catalog);
void add_sampler(meshwork::Catalog& catalog);
void add_sign_momentum(meshwork::Catalog& catalog);
void add_sparse_normal(meshwork::Catalog& catalog);
void add_swish(meshwork::Catalog& catalog);
void add_windowed_gpipe(meshwork::Catalog& catalog);

}  // namespace mine

MESHWORK_EXTENSION(catalog) {
  mine::add_board(catalog);
  mine::add_fourth_powers(catalog);
  mine::add_oscillator(catalog);
  mine::add_pinball(catalog);
  mine::add_ring_all_reduce(catalog);
  mine::add_sampler(catalog);
  mine::add_sign_momentum(catalog);
  mine::add_sparse_normal(catalog);
  mine::add_swish(catalog);
  mine::add_windowed_gpipe(catalog);
}
