package proxmox

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

// discSlot is the slot of the i-th disc beside the seed.
func discSlot(i int) string { return fmt.Sprintf("sata%d", i) }

// Activity is what a VM has done with its drives since it was switched on.
type Activity struct {
	Running bool
	Uptime  time.Duration
	Read    Size // from the disk that it boots from
	Written Size // to that disk
	Disc    Size // read from the first of its Discs
}

// Activity returns what a VM has done with its drives. Proxmox asks QEMU for that (blockstat of
// PVE::QemuServer::vmstatus).
func (c *ConsoleClient) Activity(ctx context.Context, vm *VM) (Activity, error) {
	type figures struct {
		Read    int64 `json:"rd_bytes"`
		Written int64 `json:"wr_bytes"`
	}
	var now struct {
		Status string             `json:"status"`
		Uptime int64              `json:"uptime"`
		Drives map[string]figures `json:"blockstat"`
	}
	if err := c.pve.Get(ctx, api.VMPath(vm.Host, vm.VMID, "status", "current"), nil, &now); err != nil {
		return Activity{}, err
	}
	disk := now.Drives["scsi0"]
	return Activity{
		Running: now.Status == "running", Uptime: time.Duration(now.Uptime) * time.Second,
		Read: Size(disk.Read), Written: Size(disk.Written), Disc: Size(now.Drives[discSlot(0)].Read),
	}, nil
}

// Boots reports whether the firmware has found something to boot: a firmware reads little, and writes nothing to
// disks. Windows' boot loader on a disc reads little too, until a key is pressed.
func (a Activity) Boots() bool { return a.Written > 0 || a.Read > 4*MiB || a.Disc > 64*MiB }

// PressEnter presses the enter key of a running VM. It is not repeated if the answer is lost: another key is pressed soon.
func (c *ConsoleClient) PressEnter(ctx context.Context, vm *VM) error {
	return c.pve.Do(ctx, http.MethodPut, api.VMPath(vm.Host, vm.VMID, "sendkey"), api.Params{"key": "ret"})
}

// Reset restarts a running VM as its reset button would. What its guest has not written is lost.
func (c *ConsoleClient) Reset(ctx context.Context, vm *VM) error {
	return c.pve.Do(ctx, http.MethodPost, api.VMPath(vm.Host, vm.VMID, "status", "reset"), nil)
}
