# Run by `cmake --install`: the installed headers include each other as "hora/core/handle.h". Users need one include folder,
# and folders of their own that are called base or core do not get in the way.

file(GLOB_RECURSE headers "${HORA_HEADERS}/*.h")
foreach(header IN LISTS headers)
  file(READ "${header}" text)
  string(REGEX REPLACE "#include \"((api|base|core|engine|transport)/)" "#include \"hora/\\1" text "${text}")
  file(WRITE "${header}" "${text}")
endforeach()
