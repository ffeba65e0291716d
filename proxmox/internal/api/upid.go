package api

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// UPID is Proxmox's name of a task. It includes what the task does, on which object, where, since
// when and for which user (PVE::UPID in pve-common).
type UPID struct {
	Node    string
	PID     uint32
	PStart  uint64 // start of the worker process in clock ticks since boot
	Started time.Time
	Type    string // "qmclone", "qmstart", "download", …
	ID      string // the object of the task; may be empty
	User    string // "homelab@pve!cluster"
}

// ParseUPID parses a UPID.
func ParseUPID(s string) (UPID, error) {
	fail := func(why string) (UPID, error) { return UPID{}, fmt.Errorf("task id %q: %s", s, why) }
	parts := strings.Split(s, ":")
	if len(parts) != 9 || parts[0] != "UPID" || parts[8] != "" {
		return fail("not of the form UPID:node:pid:pstart:start:type:id:user:")
	}
	pid, err := parseHex(parts[2], 8, 8, 32)
	if err != nil {
		return fail("the process id is not 8 hexadecimal digits")
	}
	pstart, err := parseHex(parts[3], 8, 9, 64)
	if err != nil {
		return fail("the process start is not 8 or 9 hexadecimal digits")
	}
	start, err := parseHex(parts[4], 8, 8, 32)
	if err != nil {
		return fail("the start time is not 8 hexadecimal digits")
	}
	if parts[1] == "" || parts[5] == "" || parts[7] == "" {
		return fail("node, type or user is empty")
	}
	if strings.ContainsAny(s, "/?#% \t\r\n") {
		return fail("a character that cannot be part of one")
	}
	return UPID{
		Node: parts[1], PID: uint32(pid), PStart: pstart, Started: time.Unix(int64(start), 0).UTC(),
		Type: parts[5], ID: parts[6], User: parts[7],
	}, nil
}

// parseHex reads a hexadecimal number of least to most digits.
func parseHex(s string, least, most, bits int) (uint64, error) {
	if len(s) < least || len(s) > most {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(s, 16, bits)
}

// String returns the UPID in Proxmox's format.
func (u UPID) String() string {
	return fmt.Sprintf("UPID:%s:%08X:%08X:%08X:%s:%s:%s:", u.Node, u.PID, u.PStart, u.Started.Unix(), u.Type, u.ID, u.User)
}

// description names the task in a sentence: "qmclone of 900 on pve1".
func (u UPID) description() string {
	if u.ID == "" {
		return fmt.Sprintf("task %s on %s", u.Type, u.Node)
	}
	return fmt.Sprintf("task %s of %s on %s", u.Type, u.ID, u.Node)
}
