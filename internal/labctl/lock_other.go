//go:build !unix

package labctl

import (
	"errors"
	"os/exec"
)

// Lock is a file lock, which the lab needs and this system does not have.
type Lock struct{}

var (
	errLocked = errors.New("locked by another process")
	errSystem = errors.New("the lab runs on Linux and macOS only; point proxmox.endpoint at a real host")
)

func tryLock(string, string) (*Lock, error) { return nil, errSystem }

// Unlock releases the lock.
func (l *Lock) Unlock() {}

func detach(*exec.Cmd) {}

func terminate(int) error { return errSystem }

func kill(int) error { return errSystem }
