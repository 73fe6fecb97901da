#include <meshwork/meshwork.h>

#include <cstdio>

int main(int argc, char** argv) {
  meshwork::Runtime runtime(argc, argv);
  meshwork::DeviceMesh mesh({{"data", -1}});
  auto input = meshwork::Input({4});
  auto output = meshwork::Dense({.units = 2})(input);
  meshwork::Model model(input, output, meshwork::DataParallel(mesh));
  std::printf("%zu weights\n", model.variable("dense/kernel").size());
}
