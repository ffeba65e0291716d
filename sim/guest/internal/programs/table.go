package programs

import (
	"context"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Program returns the programs of this room.
func Program(name string) machine.Program {
	for _, group := range []func(string) machine.Program{fileProgram, listProgram, textProgram, baseProgram} {
		if r := group(name); r != nil {
			return r
		}
	}
	return nil
}

func fileProgram(name string) machine.Program {
	switch name {
	case "cat":
		return runCat
	case "tee":
		return runTee
	case "dd":
		return runDD
	case "cp":
		return runCp
	case "mv":
		return runMv
	case "rm":
		return runRm
	case "mkdir":
		return runMkdir
	case "rmdir":
		return runRmdir
	case "ln":
		return runLn
	case "chmod":
		return runChmod
	case "chown", "chgrp":
		return runChown
	case "touch":
		return runTouch
	case "truncate":
		return runTruncate
	case "mktemp":
		return runMktemp
	}
	return nil
}

func listProgram(name string) machine.Program {
	switch name {
	case "ls":
		return runLs
	case "stat":
		return runStat
	case "readlink", "realpath":
		return runReadlink
	case "basename", "dirname":
		return runBasename
	case "find":
		return runFind
	case "which":
		return runWhich
	}
	return nil
}

func textProgram(name string) machine.Program {
	switch name {
	case "grep", "egrep":
		return runGrep
	case "sed":
		return runSed
	case "awk":
		return runAwk
	case "head", "tail":
		return runHead
	case "tac":
		return runTac
	case "wc":
		return runWc
	case "sort":
		return runSort
	case "cut":
		return runCut
	case "tr":
		return runTr
	case "sha256sum", "md5sum":
		return runSum
	case "cmp":
		return runCmp
	case "xargs":
		return runXargs
	}
	return nil
}

func baseProgram(name string) machine.Program {
	switch name {
	case "true", "sync", "ldconfig", "udevadm", "update-grub", "loginctl", "passwd", "deb-systemd-invoke", "gzip", "swapoff", "update-initramfs":
		return func(context.Context, *machine.Proc) int { return 0 }
	case "false":
		return func(context.Context, *machine.Proc) int { return 1 }
	case "env", "printenv":
		return runEnv
	case "sudo":
		return runSudo
	case "sleep":
		return runSleep
	case "timeout":
		return runTimeout
	case "flock":
		return runFlock
	case "date":
		return runDate
	case "id", "whoami":
		return runID
	case "uptime":
		return runUptime
	case "exportfs":
		return runExportfs
	case "uname":
		return runUname
	case "hostname", "hostnamectl":
		return runHostname
	case "getent":
		return runGetent
	case "curl", "wget":
		return runCurl
	}
	return nil
}
