//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

const programName = "mage"

// execProgram replaces this program by another one.
func execProgram(program string, args []string) (int, error) {
	err := syscall.Exec(program, append([]string{programName}, args...), os.Environ())
	return 1, &os.PathError{Op: "run", Path: program, Err: err}
}

// lock waits until no other command compiles in this folder.
func (f folder) lock() (unlock func(), err error) {
	if err := os.MkdirAll(f.kept, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(f.kept, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		printLine(waiting)
		for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
			err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		}
	}
	if err != nil {
		file.Close()
		return nil, &os.PathError{Op: "lock", Path: file.Name(), Err: err}
	}
	return func() { file.Close() }, nil
}

// replace moves a program to where another one may be running.
func replace(from, to string) error { return os.Rename(from, to) }
