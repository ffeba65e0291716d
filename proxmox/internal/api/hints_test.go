package api

// What Proxmox says, and what is said of it.

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Every sentence of Proxmox's that something can be done about says what.
func TestHints(t *testing.T) {
	for _, tt := range []struct {
		message string
		want    string // the hint; "" for none
	}{
		{"PCI device '0000:41:00.0' already in use by VMID '104'", "the card belongs to VM 104 now: stop that VM or remove the card from it (hostpciN in qm config 104)"},
		{"PCI device '0000:41:00.0' reserved for use by VMID 105", "the card belongs to VM 105 now: stop that VM or remove the card from it (hostpciN in qm config 105)"},
		{"only root can set 'hugepages' config", "only root@pam itself may do this, not a token, not even root's: use a resource mapping or leave the option out"},
		{"PCI device mapping invalid (hardware probably changed): x", "the mapping does not fit the hardware (any longer): recreate it from what the host reports"},
		{"PCI device mapping not found for 'gpu0'", "the mapping does not fit the hardware (any longer): recreate it from what the host reports"},
		{"could not find a free device for 'gpu0'", "every card of the mapping is in use by another VM"},
		{"base volume 'x' is still in use by linked clones", "linked clones depend on its disks: remove them first"},
		{"start failed: command 'kvm' failed: got timeout", "the VM did not start in time; with a passed-through device all its memory is pinned first: is that much free on the host?"},
		{"IOMMU not present", "switch the IOMMU on in the firmware and on the kernel's command line, then reboot the host"},
		{"QEMU guest agent is not running", "the guest is still booting, or qemu-guest-agent is not installed in it"},
		{"VM 100 is not running", ""},
		{"guest agent says no", ""},
		{"Cannot bind 0000:01:00.1 to vfio", "the host's driver keeps that device, or the host lacks vfio-pci: lspci -nnks 0000:01:00.1 and dmesg on the host say which driver; end what uses it there, " +
			"or give the device to vfio-pci from the boot on (homelab host:prep does that for GPUs)"},
		{"can't lock file '/x' - got timeout", "several attempts failed because another task holds this lock: look at the host's running tasks, and run it again when they are done"},
		{"cfs-lock 'x' error: got lock request timeout", "several attempts failed because another task holds this lock: look at the host's running tasks, and run it again when they are done"},
		{"can't lock file '/x'", ""},
		{"read: got timeout", ""},
		{"VM is locked (backup)", "a task is running on the VM, or died while it ran; if the host shows no running task: qm unlock 100"},
		{"something else", ""},
	} {
		assert.Equal(t, tt.want, hintFor(tt.message, "100"), tt.message)
		head := "proxmox: PUT /nodes/pve1/lxc/100/config: " + tt.message + " (status 500)"
		err := &Error{Status: 500, Method: "PUT", Path: "/nodes/pve1/lxc/100/config", Message: tt.message}
		task := &TaskError{UPID: UPID{Node: "pve1", Type: "qmstart", ID: "100"}, Exit: tt.message}
		if tt.want == "" {
			assert.EqualError(t, err, head)
			assert.EqualError(t, task, "proxmox: task qmstart of 100 on pve1 failed: "+tt.message)
			continue
		}
		assert.EqualError(t, err, head+"\n  "+tt.want)
		assert.EqualError(t, task, "proxmox: task qmstart of 100 on pve1 failed: "+tt.message+"\n  "+tt.want)
	}
}

// A refusal names what is missing, and for requests whose refusals are bare what it must be.
func TestRefusals(t *testing.T) {
	const bare = "Proxmox does not name the privilege, but it can only be this: the token a@pve!b lacks %s on %s; "
	for _, tt := range []struct{ method, path, message, want string }{
		{"POST", "/nodes/pve1/qemu", "x", fmt.Sprintf(bare, "VM.Allocate", "/vms")},
		{"POST", "/nodes/pve1/qemu/100/clone", "x", fmt.Sprintf(bare, "VM.Allocate", "/vms")},
		{"POST", "/nodes/pve1/qemu/100/config", "x", "the token a@pve!b lacks a privilege that Proxmox does not name; see pveum user token permissions a@pve b"},
		{"POST", "/nodes/pve1/lxc/100/clone", "x", "the token a@pve!b lacks a privilege"},
		{"POST", "/nodes/pve1/storage/local/upload", "x", fmt.Sprintf(bare, "Datastore.AllocateTemplate", "/storage/local")},
		{"POST", "/nodes/pve1/storage/upload", "x", "the token a@pve!b lacks a privilege"},
		{"POST", "/nodes/pve1/storage/local/download-url", "x", fmt.Sprintf(bare, "Sys.AccessNetwork", "/nodes/pve1")},
		{"POST", "/nodes/pve1/storage/local/other", "x", "the token a@pve!b lacks a privilege"},
		{"PUT", "/nodes/pve1/storage/local/download-url", "x", "the token a@pve!b lacks a privilege"},
		{"POST", "/cluster/x/download-url", "x", "the token a@pve!b lacks a privilege"},
		{"POST", "/nodes/x", "x", "the token a@pve!b lacks a privilege"},
		{"GET", "/version", "pool 'x' does not exist", "Proxmox answers this if a pool does not exist: create it with pvesh create /pools --poolid NAME, or leave it out"},
		{"GET", "/version", "user != root@pam", "only root@pam itself may do this"},
		{"GET", "/version", "Permission check failed (/vms/100, VM.Audit|VM.Monitor)", "the token a@pve!b lacks one of VM.Audit, VM.Monitor on /vms/100; add it to its role on that path: pveum role modify ROLE --append 1 --privs VM.Audit\n"},
		{"GET", "/version", "Permission check failed (/vms/100, VM.Audit, VM.Monitor)", "the token a@pve!b lacks VM.Audit and VM.Monitor on /vms/100; "},
	} {
		err := &Error{Status: http.StatusForbidden, Method: tt.method, Path: tt.path, Message: tt.message, Token: "a@pve!b"}
		_, hint, _ := strings.Cut(err.Error(), "\n  ")
		assert.True(t, strings.HasPrefix(hint, tt.want), "%s %s: %s", tt.method, tt.path, hint)
		assert.True(t, err.IsPermission())
		assert.True(t, err.Permanent())
		err.Status = http.StatusInternalServerError
		assert.Equal(t, strings.HasPrefix(tt.message, "Permission"), err.Permanent(), "%s %s", tt.method, tt.path)
	}
	task := &TaskError{UPID: UPID{Node: "pve1", Type: "qmconfig"}, Exit: "Permission check failed (/vms/100, VM.Audit|VM.Monitor)", Token: "a@pve!b"}
	assert.True(t, task.Permanent())
	assert.True(t, strings.HasPrefix(task.Error(), "proxmox: task qmconfig on pve1 failed: Permission check failed (/vms/100, VM.Audit|VM.Monitor)\n"+
		"  the token a@pve!b lacks one of VM.Audit, VM.Monitor on /vms/100; add it"), task.Error())
	task.Cure = "do this"
	assert.True(t, strings.HasSuffix(task.Error(), "on /vms/100; do this"), task.Error())
	task.Exit = "Permission check failed"
	assert.EqualError(t, task, "proxmox: task qmconfig on pve1 failed: Permission check failed")
	tag := &TaskError{Exit: "Permission check failed (/, Sys.Modify for modifying tag 'x')"}
	assert.Contains(t, tag.Error(), "it is for the tag x; any token may set free tags")
}

// Whether nothing was done, or nobody knows, decides what is done next.
func TestStatusesAndClasses(t *testing.T) {
	for status, want := range map[int]Class{
		0: Unknown, 595: Unknown, 596: Unknown, 502: Unknown, 503: Unknown, 504: Unknown, 500: Permanent, 400: Permanent, 401: Permanent, 403: Permanent, 501: Permanent, 505: Permanent,
	} {
		err := &Error{Status: status, Method: "POST", Path: "/x", Message: "no"}
		assert.Equal(t, want, err.class(), "%d", status)
		assert.Equal(t, want != Permanent, err.Transient(), "%d", status)
		assert.Equal(t, want, ClassOf(fmt.Errorf("x: %w", err)))
	}
	assert.Equal(t, Transient, (&Error{Status: 595, Message: "Connection refused"}).class())
	assert.Equal(t, Unknown, (&Error{Status: 596, Message: "Connection refused"}).class())
	assert.Equal(t, Permanent, ClassOf(errors.New("x")))
	for exit, want := range map[string]Class{
		"unexpected status": Unknown, "unable to read tail (got 0 bytes)": Permanent, "unable to parse last line": Unknown,
		"failed to read last line": Permanent, "can't lock file 'x' - got timeout": Transient, "no": Permanent,
	} {
		assert.Equal(t, want, (&TaskError{Exit: exit}).class(), exit)
	}
	for class, want := range map[Class]string{Permanent: "permanent", Transient: "transient", Unknown: "unknown outcome"} {
		assert.Equal(t, want, class.String())
	}
}

// An error in one line: whether it was done is not known of what was not answered, and of
// a look nobody asks.
func TestErrorsInWords(t *testing.T) {
	for want, e := range map[string]*Error{
		"proxmox: POST /x: gone: whether it was done is not known": {Method: "POST", Path: "/x", Message: "gone"},
		"proxmox: GET /x: gone":                  {Method: "GET", Path: "/x", Message: "gone"},
		"proxmox: PUT /x: Conflict (status 409)": {Method: "PUT", Path: "/x", Status: 409},
		"proxmox: PUT /x: a (status 500)":        {Method: "PUT", Path: "/x", Status: 500, Message: " a\n"},
		"proxmox: GET /nodes/pve1/qemu/100/x: VM is locked (suspended) (status 500)\n  a task is running on the VM, or died while it ran; " +
			"if the host shows no running task: qm unlock 100": {Method: "GET", Path: "/nodes/pve1/qemu/100/x", Status: 500, Message: "VM is locked (suspended)"},
		"proxmox: GET /x: y (status 595)\n  Proxmox's proxy got no answer from the node or its daemon within 30 s: see systemctl status pvedaemon pveproxy there":                         {Method: "GET", Path: "/x", Status: 595, Message: "y"},
		"proxmox: GET /x: y (status 596)\n  Proxmox's proxy got no answer from the node or its daemon within 30 s: see systemctl status pvedaemon pveproxy there":                         {Method: "GET", Path: "/x", Status: 596, Message: "y"},
		"proxmox: GET /x: y (status 401)\n  the token a@pve!b is unknown, expired or disabled, or its secret is wrong: see pveum user token list a@pve":                                   {Method: "GET", Path: "/x", Status: 401, Message: "y", Token: "a@pve!b"},
		"proxmox: GET /nodes/pve1/storage/100: VM is locked (clone) (status 500)\n  a task is running on the VM, or died while it ran; if the host shows no running task: qm unlock VMID": {Method: "GET", Path: "/nodes/pve1/storage/100", Status: 500, Message: "VM is locked (clone)"},
	} {
		assert.EqualError(t, e, want)
	}
	assert.EqualError(t, &TaskError{UPID: UPID{Node: "pve1", Type: "download"}, Exit: "no", Log: []string{"TASK ERROR: no", "no content", " ", "what happened "}},
		"proxmox: task download on pve1 failed: no\n  | what happened")
}

func TestSentinels(t *testing.T) {
	for text, want := range map[string]error{
		"Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist": ErrNotFound,
		"unable to find configuration file for VM 100 on node 'pve1'":         ErrNotFound,
		"no such task": ErrNotFound, "mapping 'x' not defined": ErrNotFound,
		"QEMU guest agent is not running":                                 ErrAgentNotRunning,
		"Agent error: failed to open file 'x': No such file or directory": fs.ErrNotExist,
		"pool 'x' does not exist":                                         nil,
		"anything":                                                        nil,
	} {
		for _, sentinel := range []error{ErrNotFound, ErrAgentNotRunning, fs.ErrNotExist} {
			assert.Equal(t, errors.Is(want, sentinel), errors.Is(&Error{Status: 500, Message: text}, sentinel), "%s: %v", text, sentinel)
			assert.Equal(t, errors.Is(want, sentinel), errors.Is(&TaskError{Exit: text}, sentinel), "%s: %v", text, sentinel)
		}
	}
	assert.ErrorIs(t, &Error{Status: 401}, ErrUnauthorized)
	assert.NotErrorIs(t, &Error{Status: 403}, ErrUnauthorized)
	assert.NotErrorIs(t, &Error{Status: 401, Message: "no such task"}, fs.ErrExist)
	for text, want := range map[string]string{
		"VM 100 already running": "on", "VM 100 is already running": "on", "VM 100 not running": "off", "VM 100 is not running": "off", "is running - destroy failed": "runs",
		"Agent error: PID 4 does not exist": "no pid", "PID 4 does not exist": "", "Agent error: PID 4": "",
		"Failed to execute child process “x” (No such file or directory)": "no program", "No such file or directory": "", "Failed to execute child process “x” (Permission denied)": "",
	} {
		got, err := "", &TaskError{Exit: text}
		for name, said := range map[string]bool{"on": IsAlreadyRunning(err), "off": IsNotRunning(err), "runs": IsRunning(err), "no pid": IsUnknownPID(err), "no program": IsProgramMissing(err)} {
			if said {
				got += name
			}
		}
		assert.Equal(t, want, got, text)
	}
	assert.Equal(t, "a\nb", messageOf(fmt.Errorf("x: %w", &Error{Message: "a", Errors: map[string]string{"vmid": "b"}})))
	assert.Equal(t, "e", messageOf(&TaskError{Exit: "e"}))
	assert.Empty(t, messageOf(errors.New("x")))
}
