package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const programName = "mage.exe"

// execProgram runs another program in place of this one; Ctrl-C is for it.
func execProgram(program string, args []string) (int, error) {
	signal.Ignore(os.Interrupt)
	cmd := exec.Command(program, args...) //nolint:noctx // ends by the terminal's signal
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return exitCode(cmd.Run())
}

// lock waits until no other command compiles in this folder: while one has this file open, no other opens it.
func (f folder) lock() (unlock func(), err error) {
	if err := os.MkdirAll(f.kept, 0o700); err != nil {
		return nil, err
	}
	name, err := syscall.UTF16PtrFromString(filepath.Join(f.kept, "lock"))
	if err != nil {
		return nil, err
	}
	const shared syscall.Errno = 32 // ERROR_SHARING_VIOLATION
	for told := false; ; told = true {
		h, err := syscall.CreateFile(name, syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
		if err == nil {
			return func() { _ = syscall.CloseHandle(h) }, nil
		}
		if !errors.Is(err, shared) {
			return nil, err
		}
		if !told {
			printLine(waiting)
		}
		<-time.After(200 * time.Millisecond)
	}
}

// replace moves a program to where another one may be running, which Windows lets one rename but not replace.
func replace(from, to string) error {
	old := to + "." + strconv.Itoa(os.Getpid()) + ".old"
	_ = os.Rename(to, old) // there may be none
	left, _ := filepath.Glob(to + ".*.old")
	for _, path := range left {
		_ = os.Remove(path) // one that still runs stays
	}
	return os.Rename(from, to)
}
