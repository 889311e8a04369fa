#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# include/sreplay/trace.h compiles alone, as C and as C++: trace_header.sh HEADER
header=$1
failed=0
number=0

compiles() { # NAME COMPILER ARGUMENTS...
	name=$1
	shift
	number=$((number + 1))
	if ! command -v "$1" >/dev/null; then
		echo "ok $number - ${header##*/} compiles alone as $name # SKIP there is no $1"
	elif "$@" -Wall -Wextra -Werror -fsyntax-only "$header"; then
		echo "ok $number - ${header##*/} compiles alone as $name"
	else
		echo "not ok $number - ${header##*/} compiles alone as $name"
		failed=1
	fi
}

compiles C11 cc -std=c11 -pedantic-errors -x c
compiles C++17 c++ -std=c++17 -x c++
echo "1..$number"
exit $failed
