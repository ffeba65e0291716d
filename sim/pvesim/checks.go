package pvesim

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// checkSSHKeys is what ssh-keygen says of each line.
func checkSSHKeys(escaped string) error {
	keys, err := url.PathUnescape(escaped)
	if err != nil {
		keys = escaped
	}
	for line := range strings.SplitSeq(keys, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if !isPublicKey(line) {
			return die("SSH public key validation error")
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
func (c *call) checkHookscript(volid string) error {
	bad := func(format string, args ...any) error {
		return badParam("hookscript", fmt.Sprintf(format, args...)+"\n")
	}
	store, _, _ := strings.Cut(volid, ":")
	st, name := c.host().volume(volid)
	switch {
	case st == nil:
		return bad("storage '%s' does not exist", store)
	case !strings.HasPrefix(name, "snippets/"):
		return bad("'%s' is not in the snippets directory", volid)
	case st.volumes[name] == nil:
		return bad("script '%s' does not exist", volid)
	}
	return nil
}

func (s *state) checkVGA(value string) error {
	d := s.props("vga", value)
	if d["clipboard"] == "vnc" && d["type"] != "" && !clipboardVGA.MatchString(d["type"]) {
		return die("vga type %s is not compatible with VNC clipboard", d["type"])
	}
	return nil
}

var clipboardVGA = regexp.MustCompile(`^(std|cirrus|vmware|virtio|qxl)`)

func (s *state) checkMachine(value string) error {
	d := s.props("machine", value)
	bits := d["aw-bits"]
	switch intel := d["viommu"] == "intel"; {
	case intel && !strings.Contains(d["type"], "q35"):
		return die("to use Intel vIOMMU please set the machine type to q35")
	case intel && bits != "" && bits != "39" && bits != "48":
		return die("Intel vIOMMU supports only 39 or 48 bits as address width")
	case bits != "" && d["viommu"] == "":
		return die("cannot set aw-bits if no vIOMMU is configured")
	}
	return nil
}

// pinnedMachine is a machine with its version, where the guest is a Windows and
// none is said; else nothing.
func (s *state) pinnedMachine(machine, ostype string) string {
	d := s.props("machine", machine)
	family := map[string]string{"": "pc-i440fx-", "pc": "pc-i440fx-", "q35": "pc-q35-"}[d["type"]]
	if family == "" || !windows.MatchString(ostype) {
		return ""
	}
	d["type"] = family + s.machineVersion()
	return s.printProps("machine", d)
}

var windows = regexp.MustCompile(`^(w|win)`)

// checkBalloon refuses a balloon larger than the memory that there will be.
func (v *vm) checkBalloon(ch change) error {
	if ch.set["memory"] == "" && !ch.sets("balloon") {
		return nil
	}
	later := func(k string) string {
		for _, from := range []map[string]string{ch.set, v.pending, v.conf} {
			if from[k] != "" {
				return from[k]
			}
		}
		return ""
	}
	if balloon := atoi(later("balloon")); balloon > 0 && balloon > int(mebibytes(later("memory"))) {
		return die("balloon value too large (must be smaller than assigned memory)")
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
	return !isCDROM(d) || !is("snapshot") && !is("format") && !strings.HasPrefix(key, "virtio")
}

// checkDriveParams looks at what drives are to be, and writes them the way in which
// they are kept (PVE/API2/Qemu.pm, check_drive_param).
func (s *state) checkDriveParams(opts map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(opts)) {
		if !isDrive(k) {
			continue
		}
		d := s.props(k, opts[k])
		if !agrees(k, d) {
			return badParam(k, "unable to parse drive options")
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
			return badParam(k, fmt.Sprintf("unable to associate path '%s' to any storage", file))
		case strings.Contains(file, ":iso/") && !isCDROM(d):
			return badParam(k, "explicit 'media=cdrom' is required for iso images")
		}
		opts[k] = s.printProps(k, d)
	}
	return nil
}

func checkImportFrom(k string, d map[string]string) error {
	if d["import-from"] == "" {
		return nil
	}
	if m := newDisk.FindStringSubmatch(d["file"]); m == nil || m[2] != "0" {
		return badParam(k, "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>")
	}
	for _, need := range map[string][]string{"efidisk0": {"efitype", "pre-enrolled-keys"}, "tpmstate0": {"version"}}[k] {
		if d[need] == "" {
			return badParam(k, fmt.Sprintf("need to specify '%s' when using 'import-from'", need))
		}
	}
	return nil
}

// checkSnippets wants the files of cicustom, before a cloud-init drive is written.
func (w worker) checkSnippets(v *vm) error {
	for _, k := range []string{"network", "user", "meta", "vendor"} {
		volid := w.s.props("cicustom", v.conf["cicustom"])[k]
		if volid == "" {
			continue
		}
		store, _, _ := strings.Cut(volid, ":")
		switch st, name := w.s.hosts[v.node].volume(volid); {
		case st == nil:
			return die("storage '%s' does not exist", store)
		case !strings.HasPrefix(name, "snippets/"):
			return die("%s is not in the snippets directory", volid)
		case st.volumes[name] == nil:
			return die("volume '%s' does not exist", volid)
		}
	}
	return nil
}
