#!/bin/bash
# launch.sh with the profile launch-datascience.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/launch.sh" --profile launch-datascience "$@"
