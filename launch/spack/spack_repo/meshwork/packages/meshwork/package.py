# A recipe for Spack 1.0 and later. It builds the source tree that it lies in:
#   spack repo add launch/spack/spack_repo/meshwork
#   spack dev-build meshwork@main
import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Meshwork(CMakePackage, CudaPackage):
    """Trains neural networks over MPI on any mix of data and model parallelism."""

    git = pathlib.Path(__file__).resolve().parents[6].as_uri()
    version("main", branch="main")

    variant("nccl", default=False, when="+cuda", description="Build the NCCL transport")

    generator("ninja")
    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    depends_on("hdf5@1.10: +mpi")
    depends_on("onednn@2.6: cpu_runtime=omp")
    depends_on("yaml-cpp")
    depends_on("cli11")
    depends_on("fmt")
    depends_on("zlib-api")
    depends_on("libaec")
    depends_on("libpng")
    depends_on("jpeg")
    depends_on("protobuf")
    depends_on("cuda@13.0:", when="+cuda")
    depends_on("cudnn@9:", when="+cuda")
    depends_on("nccl@2.18:", when="+nccl")

    conflicts("%gcc@:11", msg="Meshwork is written in C++20")
    conflicts("%clang@:15", msg="Meshwork is written in C++20")

    def cmake_args(self):
        # Spack's compiler wrapper says for which processor to compile.
        args = [
            self.define("MESHWORK_NATIVE", False),
            self.define("MESHWORK_TESTS", False),
            self.define("MESHWORK_UNITY", True),
            self.define("MESHWORK_TENSORBOARD", "ON"),
            self.define("MESHWORK_CUDA", "ON" if "+cuda" in self.spec else "OFF"),
            self.define("MESHWORK_NCCL", "ON" if "+nccl" in self.spec else "OFF"),
        ]
        architectures = self.spec.variants.get("cuda_arch")
        if architectures and "none" not in architectures.value:
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", list(architectures.value)))
        return args
