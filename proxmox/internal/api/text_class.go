package api

import (
	"errors"
	"io/fs"
	"regexp"
	"strings"
)

var (
	permissionText     = regexp.MustCompile(`Permission check failed(?: \((/[^,()]*), ([A-Za-z.|, ]+?)(?: for [^()]*)?\))?`)
	poolGoneText       = regexp.MustCompile(`pool '[^']*' does not exist`)
	rootOnlyText       = regexp.MustCompile(`[Oo]nly root can (?:set|pass)|user != root@pam`)
	vmLockedText       = regexp.MustCompile(`VM is locked \(([a-z-]+)\)`)
	vmidTakenText      = regexp.MustCompile(`unable to create VM \d+(?:: config file already exists| - VM \d+ already exists)|VM \d+ already exists`)
	alreadyRunningText = regexp.MustCompile(`VM \d+ (?:is )?already running`)
	notRunningText     = regexp.MustCompile(`VM \d+ (?:is )?not running`)
	transientText      = regexp.MustCompile(`lock file .* - got timeout|got lock request timeout|got no worker upid|detected modified configuration|checksum mismatch \(file change by other user\?\)`)
	gpuBusyText        = regexp.MustCompile(`already in use by VMID '(\d+)'|reserved for use by VMID '?(\d+)'?`)
	vfioText           = regexp.MustCompile(`Cannot bind (\S+) to vfio`) // pve-common, pci_dev_group_bind_to_vfio of PVE/SysFSTools.pm
)

// textClass classifies a message or exit status. Transient failures pass by themselves: a lock that
// another task holds, a worker that died before its work started, a file that was changed between
// read and write. A timeout alone is not transient: that of the kvm command recurs.
func textClass(text string) Class {
	if transientText.MatchString(text) {
		return Transient
	}
	return Permanent
}

// isMessageOf reports whether text is Proxmox's message for target.
func isMessageOf(text string, target error) bool {
	switch {
	case errors.Is(target, ErrAgentNotRunning):
		return strings.Contains(text, "QEMU guest agent is not running")
	case errors.Is(target, fs.ErrNotExist): // of a file in a guest
		return strings.Contains(text, "No such file or directory")
	case errors.Is(target, ErrNotFound):
		return strings.Contains(text, "does not exist") && !strings.Contains(text, "pool '") ||
			strings.Contains(text, "unable to find configuration file for VM") ||
			strings.Contains(text, "no such task") || strings.Contains(text, "not defined")
	}
	return false
}

// IsProtected reports whether err says that a VM must not be destroyed.
func IsProtected(err error) bool { return strings.Contains(messageOf(err), "protection mode enabled") }

// IsOfHA reports whether err says that a request cannot have an option since HA manages the VM.
func IsOfHA(err error) bool {
	return strings.Contains(messageOf(err), "Not applicable for HA resources")
}

// IsVMIDTaken reports whether err says that a VMID is already in use.
func IsVMIDTaken(err error) bool { return vmidTakenText.MatchString(messageOf(err)) }

// LockOf returns the lock that err reports, or "" if there is none.
func LockOf(err error) string {
	if m := vmLockedText.FindStringSubmatch(messageOf(err)); m != nil {
		return m[1]
	}
	return ""
}

// IsAlreadyRunning reports whether err says that a VM to start is running already.
func IsAlreadyRunning(err error) bool { return alreadyRunningText.MatchString(messageOf(err)) }

// IsNotRunning reports whether err says that a VM is off: "VM 100 is not running".
func IsNotRunning(err error) bool { return notRunningText.MatchString(messageOf(err)) }

// IsRunning reports whether err says that a VM to destroy is running.
func IsRunning(err error) bool {
	return strings.Contains(messageOf(err), "is running - destroy failed")
}

// IsUnknownPID reports whether the agent does not know the process, because its result was already
// read.
func IsUnknownPID(err error) bool {
	return strings.Contains(messageOf(err), "Agent error: PID") && strings.Contains(messageOf(err), "does not exist")
}

// IsProgramMissing reports whether the agent could not find the program to run.
func IsProgramMissing(err error) bool {
	return strings.Contains(messageOf(err), "Failed to execute child process") && strings.Contains(messageOf(err), "No such file")
}

// messageOf returns Proxmox's message in err, or "" if there is none.
func messageOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		out := e.Message
		for _, v := range e.Errors {
			out += "\n" + v
		}
		return out
	}
	var t *TaskError
	if errors.As(err, &t) {
		return t.Exit
	}
	return ""
}

// denied parses "Permission check failed (/vms/100, VM.Audit|VM.Config.Disk)".
func denied(text string) (path string, privileges []string, ok bool) {
	m := permissionText.FindStringSubmatch(text)
	if m == nil {
		return "", nil, false
	}
	return m[1], strings.FieldsFunc(m[2], func(r rune) bool { return r == '|' || r == ',' || r == ' ' }), true
}

// IsStaleConfig reports whether err says that a configuration has changed since it was read.
func IsStaleConfig(err error) bool { return strings.Contains(messageOf(err), "checksum mismatch") }
