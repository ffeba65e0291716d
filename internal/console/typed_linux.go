package console

import "golang.org/x/sys/unix"

// dropTyped throws away what was typed on a terminal and not read yet (tcflush(3)). A terminal that
// cannot do that is asked on all the same.
func dropTyped(fd int) { _ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }
