//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package console

import "golang.org/x/sys/unix"

// read is FREAD of <sys/fcntl.h>: the queue of what was typed.
const read = 1

// dropTyped throws away what was typed on a terminal and not read yet.
func dropTyped(fd int) { _ = unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, read) }
