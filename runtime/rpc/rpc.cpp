#include "runtime/rpc/rpc.h"

#include <mpi.h>

#include <iostream>

#include "collectives/hosted.h"
#include "runtime/config/nearest.h"

namespace meshwork {

Rpc::Rpc(const Communicator& ranks, const RpcOptions& options) : calls_(ranks, options) {
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  const Hosted* const hosted = Hosted::current();
  const bool prints = hosted == nullptr || hosted->prints();
  if (has_threads() || rank() != 0 || !prints) return;
  std::cerr << (level == MPI_THREAD_MULTIPLE ? "the service has no threads"
                                             : "this MPI gives less than MPI_THREAD_MULTIPLE")
            << ": calls between ranks go on only between the instructions of a step, and while a "
               "rank waits for an answer or says rpc.progress()\n";
}

RpcReader rpc_result(Answer& answer) {
  const std::string name = answer.function();
  try {
    return RpcReader(answer.get());
  } catch (const UnknownFunction& unknown) {
    throw UnknownFunction(unknown.what() + did_you_mean(name, unknown.defined()),
                          unknown.defined());
  }
}

void rpc_check(char result, std::string_view parameters, std::string_view given) {
  const std::string_view arguments = given.substr(1);
  bool fits =
      arguments.size() == parameters.size() && (given[0] == 'v' || rpc_accepts(given[0], result));
  for (std::size_t i = 0; fits && i < parameters.size(); ++i) {
    fits = rpc_accepts(parameters[i], arguments[i]);
  }
  if (fits) return;
  fail("it takes {} and gives {}; it was called with {} for {}", rpc_types_in_words(parameters),
       rpc_type_in_words(result), rpc_types_in_words(arguments), rpc_type_in_words(given[0]));
}

}  // namespace meshwork
