#!/bin/bash
# launch.sh with the profile launch-scipy-ml.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/launch.sh" --profile launch-scipy-ml "$@"
