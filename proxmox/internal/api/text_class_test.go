package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestClassesOfWhatProxmoxSays(t *testing.T) {
	for text, want := range map[string]Class{
		"can't lock file '/var/lock/qemu-server/lock-400.conf' - got timeout":                                      Transient,
		"clone failed: can't lock file '/var/lock/pve-manager/pve-storage-vmdata' - got timeout":                   Transient,
		"create group failed: cfs-lock 'file-user_cfg' error: got lock request timeout":                            Transient,
		"got no worker upid - start worker failed":                                                                 Transient,
		"checksum mismatch (file change by other user?)":                                                           Transient,
		"update hardware mapping failed: detected modified configuration - file changed by other user? Try again.": Transient,
		"start failed: command '/usr/bin/kvm -id 100 -name wk1' failed: got timeout":                               Permanent,
		"VM is locked (clone)":                                       Permanent,
		"bridge 'vmbr9' does not exist":                              Permanent,
		"only root can set 'hostpci0' config for non-mapped devices": Permanent,
	} {
		assert.Equal(t, want, textClass(text), text)
	}
	assert.True(t, IsVMIDTaken(&TaskError{Exit: "unable to create VM 900 - VM 900 already exists on node 'pve1'"}))
	assert.True(t, IsVMIDTaken(&TaskError{Exit: "unable to create VM 930: config file already exists"}))
	assert.False(t, IsVMIDTaken(&TaskError{Exit: "refusing to override existing file '/var/lib/vz/import/dl.qcow2'"}))
	assert.Equal(t, "clone", LockOf(&TaskError{Exit: "VM is locked (clone)"}))
}
