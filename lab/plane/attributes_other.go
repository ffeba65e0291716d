//go:build !linux

package plane

import "syscall"

// attributes give a child a process group of its own, away from our terminal's
// Ctrl-C. That it ends with us, it sees to itself: see component.Run.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
