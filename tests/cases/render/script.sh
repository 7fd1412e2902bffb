#!/bin/bash
echo "it's \"here\" at $HOME"
exec python train.py "$@"
