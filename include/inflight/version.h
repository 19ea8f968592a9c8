/* SPDX-License-Identifier: Apache-2.0
 * The one place that holds the version numbers; CMake and pkg-config read them from here. */
#ifndef INFLIGHT_VERSION_H
#define INFLIGHT_VERSION_H

/** Library version (SemVer). */
#define INFLIGHT_VERSION_MAJOR 0
#define INFLIGHT_VERSION_MINOR 1
#define INFLIGHT_VERSION_PATCH 0
#define INFLIGHT_VERSION_STRING "0.1.0"

/** Engine ABI: changes only when a program built against an older inflight.h would break. */
#define INFLIGHT_ABI_VERSION 0

#endif
