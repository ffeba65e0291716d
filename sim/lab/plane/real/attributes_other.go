//go:build !linux

package real

import "syscall"

// attributes give a child a process group of its own, away from our terminal's Ctrl-C. The
// child itself makes sure that it ends with us: see component.Run.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
