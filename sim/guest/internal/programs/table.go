package programs

import (
	"context"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Programs returns the programs of this room.
func Programs() map[string]machine.Program {
	succeeds := func(context.Context, *machine.Proc) int { return 0 }
	return map[string]machine.Program{
		"cat":   runCat,
		"tee":   runTee,
		"dd":    runDD,
		"cp":    runCp,
		"mv":    runMv,
		"rm":    runRm,
		"mkdir": runMkdir,
		"rmdir": runRmdir,
		"ln":    runLn,
		"chmod": runChmod,
		"chown": runChown, "chgrp": runChown,
		"touch":    runTouch,
		"truncate": runTruncate,
		"mktemp":   runMktemp,

		"ls":       runLs,
		"stat":     runStat,
		"readlink": runReadlink, "realpath": runReadlink,
		"basename": runBasename, "dirname": runBasename,
		"find":  runFind,
		"which": runWhich,

		"grep": runGrep, "egrep": runGrep,
		"sed":  runSed,
		"awk":  runAwk,
		"head": runHead, "tail": runHead,
		"tac":       runTac,
		"wc":        runWc,
		"sort":      runSort,
		"cut":       runCut,
		"tr":        runTr,
		"sha256sum": runSum, "md5sum": runSum,
		"cmp":   runCmp,
		"xargs": runXargs,

		"true": succeeds, "sync": succeeds, "ldconfig": succeeds, "udevadm": succeeds, "update-grub": succeeds, "loginctl": succeeds,
		"passwd": succeeds, "deb-systemd-invoke": succeeds, "gzip": succeeds, "swapoff": succeeds, "update-initramfs": succeeds,
		"false": func(context.Context, *machine.Proc) int { return 1 },
		"env":   runEnv, "printenv": runEnv,
		"sudo":    runSudo,
		"sleep":   runSleep,
		"timeout": runTimeout,
		"flock":   runFlock,
		"date":    runDate,
		"id":      runID, "whoami": runID,
		"uptime":   runUptime,
		"exportfs": runExportfs,
		"uname":    runUname,
		"hostname": runHostname, "hostnamectl": runHostname,
		"getent":   runGetent,
		"chpasswd": runChpasswd,
		"curl":     runCurl, "wget": runCurl,
	}
}
