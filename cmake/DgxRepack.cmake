# cpack reads this when it has made the packages.
execute_process(COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/repack.sh ${CPACK_PACKAGE_FILES} COMMAND_ERROR_IS_FATAL ANY)
