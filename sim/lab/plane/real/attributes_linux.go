package real

import "syscall"

// attributes give a child a process group of its own, away from our terminal's
// Ctrl-C, and let the kernel kill it when the thread that started it ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
