package api

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
)

func (e *Error) hint() string {
	switch {
	case e.Status == http.StatusUnauthorized:
		return fmt.Sprintf("the token %s is unknown, expired or disabled, or its secret is wrong: see pveum user token list %s",
			e.Token, printable.Word(userOf(e.Token)))
	case e.IsPermission():
		return e.refusal()
	case e.Status == 595 || e.Status == 596:
		return "Proxmox's proxy got no answer from the node or its daemon within 30 s: see systemctl status pvedaemon pveproxy there"
	}
	return hintFor(e.Message, e.vmid())
}

// vmid returns the VM or container of the request, or "" if there is none.
func (e *Error) vmid() string {
	part := strings.Split(strings.TrimPrefix(e.Path, "/"), "/") // nodes, pve1, qemu, 100, config
	if len(part) > 3 && part[0] == "nodes" && (part[2] == "qemu" || part[2] == "lxc") {
		return part[3]
	}
	return ""
}

// refusal says which privileges a refused request lacked.
func (e *Error) refusal() string {
	path, privileges, anyOf, named := e.lackedPrivileges()
	switch {
	case rootOnlyText.MatchString(e.Message):
		return hintFor(e.Message, "")
	case poolGoneText.MatchString(e.Message):
		return "Proxmox answers this if a pool does not exist: create it with pvesh create /pools --poolid NAME, or leave it out"
	case len(privileges) == 0:
		return fmt.Sprintf("the token %s lacks a privilege that Proxmox does not name; see pveum user token permissions %s",
			e.Token, tokenWords(e.Token))
	}
	out := missingPrivilegeText(e.Token, path, privileges, anyOf, cmp.Or(e.Cure, (&grantHints{}).cure(path, privileges)))
	if !named {
		out = "Proxmox does not name the privilege, but it can only be this: " + out
	}
	return out + tagHint(e.Message)
}

func (e *TaskError) hint() string {
	if path, privileges, ok := denied(e.Exit); ok && len(privileges) > 0 {
		return missingPrivilegeText(e.Token, path, privileges, strings.Contains(e.Exit, "|"),
			cmp.Or(e.Cure, (&grantHints{}).cure(path, privileges))) +
			tagHint(e.Exit)
	}
	return hintFor(e.Exit, e.UPID.ID)
}

// hintFor says what to do about a message or exit status, or returns "" if it is unknown.
func hintFor(text, id string) string {
	if m := gpuBusyText.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("the card belongs to VM %s now: stop that VM or remove the card from it (hostpciN in qm config %s)", m[1]+m[2], printable.Word(m[1]+m[2]))
	}
	if m := vfioText.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("the host's driver keeps that device, or the host lacks vfio-pci: lspci -nnks %s and dmesg on the host say which driver; end what uses it there, "+
			"or give the device to vfio-pci from the boot on (homelab host:prep does that for GPUs)", m[1])
	}
	switch {
	case rootOnlyText.MatchString(text):
		return "only root@pam itself may do this, not a token, not even root's: use a resource mapping or leave the option out"
	case strings.Contains(text, "PCI device mapping invalid"), strings.Contains(text, "PCI device mapping not found"):
		return "the mapping does not fit the hardware (any longer): recreate it from what the host reports"
	case strings.Contains(text, "could not find a free device"):
		return "every card of the mapping is in use by another VM"
	case strings.Contains(text, "still in use by linked"):
		return "linked clones depend on its disks: remove them first"
	case strings.Contains(text, "failed: got timeout"):
		return "the VM did not start in time; with a passed-through device all its memory is pinned first: is that much free on the host?"
	case strings.Contains(text, "IOMMU not present"):
		return "switch the IOMMU on in the firmware and on the kernel's command line, then reboot the host"
	case strings.Contains(text, "is not running") && strings.Contains(text, "guest agent"):
		return "the guest is still booting, or qemu-guest-agent is not installed in it"
	case strings.Contains(text, "lock file") && strings.Contains(text, "got timeout"), strings.Contains(text, "got lock request timeout"):
		return "several attempts failed because another task holds this lock: look at the host's running tasks, and run it again when they are done"
	case vmLockedText.MatchString(text):
		return "a task is running on the VM, or died while it ran; if the host shows no running task: qm unlock " + cmp.Or(id, "VMID")
	}
	return ""
}

func userOf(token string) string {
	user, _, _ := strings.Cut(token, "!")
	return user
}

func tokenWords(token string) string {
	user, name, _ := strings.Cut(token, "!")
	return printable.Word(user) + " " + printable.Word(name)
}

// FreeTags returns the command that lets every token set the tags of its machines. It sets the whole
// option again, with its list.
func FreeTags(list []string) string {
	value := "user-allow=free"
	if len(list) > 0 {
		value += ",user-allow-list=" + strings.Join(list, ";")
	}
	return "pvesh set /cluster/options --user-tag-access " + printable.Word(value)
}

// TagsLost says what FreeTags would lose where the token may not see the option.
const TagsLost = "first look at pvesh get /cluster/options: if its user-tag-access has a user-allow-list, " +
	"append ,user-allow-list=A;B to user-allow=free, or the list is lost"

var tagText = regexp.MustCompile(`Sys\.Modify for modifying tag '(.*?)'`)

// tagHint says what to do if Proxmox refused to set a tag, or returns "" for other refusals.
func tagHint(message string) string {
	m := tagText.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	return fmt.Sprintf("\n  it is for the tag %s; any token may set free tags, and this one needs nothing else, "+
		"once root has run on a host: %s"+
		"\n  %s"+
		"\n  (a tag that is among the datacenter's registered-tags stays reserved for administrators: remove it there)", m[1], FreeTags(nil), TagsLost)
}
