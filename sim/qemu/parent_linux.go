package qemu

import (
	"os/exec"
	"syscall"
)

// dieWithUs has the kernel end a process with the thread that starts it: anyone who starts
// it stays on that thread as long as it runs.
func dieWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
