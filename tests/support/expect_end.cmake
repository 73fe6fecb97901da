# Runs a program and compares how it ended with what was expected:
#   cmake -DSTATUS=n [-DOUTPUT=patterns] [-DABSENT=patterns] -P expect_end.cmake -- program argument...
# Standard output and standard error together must match every OUTPUT and no ABSENT; patterns are regular
# expressions with " AND " between them.

set(command)
set(found FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(index RANGE ${last})
  if(found)
    list(APPEND command "${CMAKE_ARGV${index}}")
  elseif(CMAKE_ARGV${index} STREQUAL "--")
    set(found TRUE)
  endif()
endforeach()

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output
                ERROR_VARIABLE output)
message("${output}")
if(NOT status STREQUAL STATUS)
  message(SEND_ERROR "it ended with status ${status}, expected ${STATUS}")
endif()
string(REPLACE " AND " ";" OUTPUT "${OUTPUT}")
string(REPLACE " AND " ";" ABSENT "${ABSENT}")
foreach(expected ${OUTPUT})
  if(NOT output MATCHES "${expected}")
    message(SEND_ERROR "its output does not match \"${expected}\"")
  endif()
endforeach()
foreach(unexpected ${ABSENT})
  if(output MATCHES "${unexpected}")
    message(SEND_ERROR "its output matches \"${unexpected}\"")
  endif()
endforeach()
