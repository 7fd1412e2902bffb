"""What every test relies on, whoever starts the run."""

import signal

# A run that was started in the background (`nohup make test &`) inherits SIGINT and SIGHUP as ignored, and so does each
# program under test: a shell cannot even trap what was ignored when it began.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)
