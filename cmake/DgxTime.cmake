# DGX_TIME: the time that pages and packages bear, in seconds since 1970: SOURCE_DATE_EPOCH, else that of the last commit, else the clock's (empty).
# cpack reads this file, too, and then gives it to all that it runs.
if(CPACK_DGX_TIME)
  set(ENV{SOURCE_DATE_EPOCH} ${CPACK_DGX_TIME})
elseif(DEFINED ENV{SOURCE_DATE_EPOCH})
  set(DGX_TIME $ENV{SOURCE_DATE_EPOCH})
else()
  execute_process(COMMAND git -C ${CMAKE_CURRENT_LIST_DIR} log -1 --format=%ct OUTPUT_VARIABLE DGX_TIME OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
