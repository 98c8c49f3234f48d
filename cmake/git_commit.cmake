# cmake -DSOURCE=... -DOUTPUT=... -P git_commit.cmake: writes SLIP_GIT_COMMIT, empty without git or outside a clone.
set(commit "")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  # --always also works without tags; --dirty marks a changed tree.
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --abbrev=10 --dirty=+ --exclude=*
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(text "#define SLIP_GIT_COMMIT \"${commit}\"\n")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT text STREQUAL old)
  file(WRITE ${OUTPUT} "${text}")
endif()
