package programs

import (
	"context"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Programs returns the programs of this room.
func Programs() map[string]machine.Program {
	succeeds := func(context.Context, *machine.Proc) int { return 0 }
	return map[string]machine.Program{
		"cat":      runCat,
		"tee":      runTee,
		"dd":       runDD,
		"cp":       runCp,
		"mv":       runMv,
		"rm":       runRm,
		"mkdir":    runMkdir,
		"rmdir":    runRmdir,
		"chmod":    runChmod,
		"chown":    runChown,
		"truncate": runTruncate,
		"mktemp":   runMktemp,

		"ls":       runLs,
		"stat":     runStat,
		"readlink": runReadlink,
		"find":     runFind,

		"grep": runGrep,
		"sed":  runSed,
		"awk":  runAwk,
		"head": runHead, "tail": runHead,
		"tac":       runTac,
		"wc":        runWc,
		"sort":      runSort,
		"cut":       runCut,
		"tr":        runTr,
		"sha256sum": runSum,
		"cmp":       runCmp,
		"xargs":     runXargs,

		"true": succeeds, "sync": succeeds, "udevadm": succeeds, "update-grub": succeeds, "update-initramfs": succeeds,
		"false":    func(context.Context, *machine.Proc) int { return 1 },
		"env":      runEnv,
		"sudo":     runSudo,
		"sleep":    runSleep,
		"timeout":  runTimeout,
		"flock":    runFlock,
		"date":     runDate,
		"exportfs": runExportfs,
		"uname":    runUname,
		"hostname": runHostname,
		"getent":   runGetent,
		"chpasswd": runChpasswd,
		"curl":     runCurl,
	}
}
