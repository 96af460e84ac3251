# find_package(holdfast) gives the target holdfast::holdfast.
include("${CMAKE_CURRENT_LIST_DIR}/holdfast-targets.cmake")
