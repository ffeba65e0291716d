package config

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/release"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// CheckSSHKeys is what ssh-keygen says of each line.
func CheckSSHKeys(escaped string) error {
	keys, err := url.PathUnescape(escaped)
	if err != nil {
		keys = escaped
	}
	for line := range strings.SplitSeq(keys, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if !isPublicKey(line) {
			return answer.Die("SSH public key validation error")
		}
	}
	return nil
}

var keyKind = regexp.MustCompile(`^(ssh-(rsa|dss|ed25519)|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)$`)

// isPublicKey tells whether a line of authorized_keys holds a key: its kind, and in
// Base64 strings with their lengths before them, of which the first is its kind.
func isPublicKey(line string) bool {
	words := strings.Fields(line)
	i := slices.IndexFunc(words, keyKind.MatchString)
	if i < 0 || i+1 == len(words) {
		return false
	}
	raw, err := base64.StdEncoding.DecodeString(words[i+1])
	if err != nil {
		return false
	}
	var parts []string
	for len(raw) >= 4 {
		n := binary.BigEndian.Uint32(raw)
		if uint64(n) > uint64(len(raw)-4) {
			return false
		}
		parts, raw = append(parts, string(raw[4:4+n])), raw[4+n:]
	}
	return len(raw) == 0 && len(parts) > 1 && parts[0] == words[i] && (parts[0] != "ssh-ed25519" || len(parts[1]) == 32)
}

// checkHookscript wants a script that is there (PVE/GuestHelpers.pm, check_hookscript).
func checkHookscript(c *world.Call, volid string) error {
	bad := func(format string, args ...any) error {
		return answer.BadParam("hookscript", fmt.Sprintf(format, args...)+"\n")
	}
	store, _, _ := strings.Cut(volid, ":")
	st, name := c.Host().Volume(volid)
	switch {
	case st == nil:
		return bad("storage '%s' does not exist", store)
	case !strings.HasPrefix(name, "snippets/"):
		return bad("'%s' is not in the snippets directory", volid)
	case st.Volumes[name] == nil:
		return bad("script '%s' does not exist", volid)
	}
	return nil
}

// CheckVGA refuses a display that does not fit its clipboard.
func CheckVGA(s *world.State, value string) error {
	d := s.Props("vga", value)
	if d["clipboard"] == "vnc" && d["type"] != "" && !clipboardVGA.MatchString(d["type"]) {
		return answer.Die("vga type %s is not compatible with VNC clipboard", d["type"])
	}
	return nil
}

var clipboardVGA = regexp.MustCompile(`^(std|cirrus|vmware|virtio|qxl)`)

// CheckMachine refuses a machine type that there is not.
func CheckMachine(s *world.State, value string) error {
	d := s.Props("machine", value)
	bits := d["aw-bits"]
	switch intel := d["viommu"] == "intel"; {
	case intel && !strings.Contains(d["type"], "q35"):
		return answer.Die("to use Intel vIOMMU please set the machine type to q35")
	case intel && bits != "" && bits != "39" && bits != "48":
		return answer.Die("Intel vIOMMU supports only 39 or 48 bits as address width")
	case bits != "" && d["viommu"] == "":
		return answer.Die("cannot set aw-bits if no vIOMMU is configured")
	}
	return nil
}

// PinnedMachine is a machine with its version, where the guest is a Windows and
// none is said; else nothing.
func PinnedMachine(s *world.State, machine, ostype string) string {
	d := s.Props("machine", machine)
	family := map[string]string{"": "pc-i440fx-", "pc": "pc-i440fx-", "q35": "pc-q35-"}[d["type"]]
	if family == "" || !windows.MatchString(ostype) {
		return ""
	}
	d["type"] = family + release.MachineVersion(s)
	return s.PrintProps("machine", d)
}

var windows = regexp.MustCompile(`^(w|win)`)

// checkBalloon refuses a balloon larger than the memory that there will be.
func checkBalloon(v *world.VM, ch Change) error {
	if ch.set["memory"] == "" && !ch.sets("balloon") {
		return nil
	}
	later := func(k string) string {
		for _, from := range []map[string]string{ch.set, v.Pending, v.Conf} {
			if from[k] != "" {
				return from[k]
			}
		}
		return ""
	}
	if balloon := schema.Atoi(later("balloon")); balloon > 0 && balloon > int(world.Mebibytes(later("memory"))) {
		return answer.Die("balloon value too large (must be smaller than assigned memory)")
	}
	return nil
}

// throttles are options of a drive that need another.
var throttles = map[string]string{"mbps_max": "mbps", "mbps_rd_max": "mbps_rd", "mbps_wr_max": "mbps_wr", "bps_max_length": "mbps_max",
	"bps_rd_max_length": "mbps_rd_max", "bps_wr_max_length": "mbps_wr_max", "iops_max_length": "iops_max",
	"iops_rd_max_length": "iops_rd_max", "iops_wr_max_length": "iops_wr_max"}

// agrees tells whether the options of a drive go together (PVE/QemuServer/Drive.pm, parse_drive).
func agrees(key string, d map[string]string) bool {
	is := func(k string) bool { return d[k] != "" && d[k] != "0" }
	for option, needs := range throttles {
		if is(option) && !is(needs) {
			return false
		}
	}
	for _, all := range []string{"mbps", "iops"} {
		if is(all) && (is(all+"_rd") || is(all+"_wr")) {
			return false
		}
	}
	return !world.IsCDROM(d) || !is("snapshot") && !is("format") && !strings.HasPrefix(key, "virtio")
}

// CheckDriveParams looks at what drives are to be, and writes them the way in which
// they are kept (PVE/API2/Qemu.pm, check_drive_param).
func CheckDriveParams(s *world.State, opts map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(opts)) {
		if !world.IsDrive(k) {
			continue
		}
		d := s.Props(k, opts[k])
		if opts[k] == request.Null || !agrees(k, d) {
			return answer.BadParam(k, "unable to parse drive options")
		}
		if err := checkImportFrom(k, d); err != nil {
			return err
		}
		file := d["file"]
		switch {
		case file == "none" || file == "cdrom":
			if d["media"] == "" {
				d["media"] = "cdrom"
			}
		case !strings.Contains(file, ":") && !strings.HasPrefix(file, "/dev/"):
			return answer.BadParam(k, fmt.Sprintf("unable to associate path '%s' to any storage", file))
		case strings.Contains(file, ":iso/") && !world.IsCDROM(d):
			return answer.BadParam(k, "explicit 'media=cdrom' is required for iso images")
		}
		opts[k] = s.PrintProps(k, d)
	}
	return nil
}

func checkImportFrom(k string, d map[string]string) error {
	if d["import-from"] == "" {
		return nil
	}
	if m := world.NewDisk.FindStringSubmatch(d["file"]); m == nil || m[2] != "0" {
		return answer.BadParam(k, "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>")
	}
	for _, need := range map[string][]string{"efidisk0": {"efitype", "pre-enrolled-keys"}, "tpmstate0": {"version"}}[k] {
		if d[need] == "" {
			return answer.BadParam(k, fmt.Sprintf("need to specify '%s' when using 'import-from'", need))
		}
	}
	return nil
}

// CheckSnippets wants the files of cicustom, before a cloud-init drive is written.
func CheckSnippets(w world.Worker, v *world.VM) error {
	for _, k := range []string{"network", "user", "meta", "vendor"} {
		volid := w.State.Props("cicustom", v.Conf["cicustom"])[k]
		if volid == "" {
			continue
		}
		store, _, _ := strings.Cut(volid, ":")
		switch st, name := w.State.Hosts[v.Node].Volume(volid); {
		case st == nil:
			return answer.Die("storage '%s' does not exist", store)
		case !strings.HasPrefix(name, "snippets/"):
			return answer.Die("%s is not in the snippets directory", volid)
		case st.Volumes[name] == nil:
			return answer.Die("volume '%s' does not exist", volid)
		}
	}
	return nil
}
