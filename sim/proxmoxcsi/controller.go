package proxmoxcsi

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Driver is the driver's name in Kubernetes.
const Driver = "csi.proxmox.sinextra.dev"

// owner is the number in the names of volumes, if the configuration has no other (pkg/config/config.go).
const owner = 9999

// Controller is the driver with its configuration.
type Controller struct {
	client *http.Client
	config cluster
	vmid   int
	poll   time.Duration
}

type cluster struct {
	URL         string `json:"url"`
	Region      string `json:"region"`
	TokenID     string `json:"token_id"`
	TokenSecret string `json:"token_secret"`
}

// New reads the driver's config.yaml. Poll is the pause between two looks at a task; 0 is a second.
func New(config []byte, client *http.Client, poll time.Duration) (*Controller, error) {
	var c struct {
		Clusters []cluster `json:"clusters"`
		Features struct {
			VMID int `json:"controllerVmID"`
		} `json:"features"`
	}
	if err := yaml.Unmarshal(config, &c); err != nil {
		return nil, errors.New("invalid cloud config")
	}
	if len(c.Clusters) != 1 {
		return nil, fmt.Errorf("%d clusters: this plays one", len(c.Clusters))
	}
	out := &Controller{client: client, config: c.Clusters[0], vmid: c.Features.VMID, poll: poll}
	if out.vmid == 0 {
		out.vmid = owner
	}
	if out.poll == 0 {
		out.poll = time.Second
	}
	switch {
	case out.config.TokenID == "" || out.config.TokenSecret == "":
		return nil, errors.New("cluster #1: user, token or file credentials are required")
	case out.config.Region == "":
		return nil, errors.New("cluster #1: missing PVE region in cloud config")
	case !strings.HasPrefix(out.config.URL, "http"):
		return nil, errors.New("cluster #1: missing PVE API URL in cloud config")
	}
	return out, nil
}

// Volume is a volume as Kubernetes knows it.
type Volume struct {
	ID    string   // REGION/HOST/STORAGE/DISK; without a host if hosts share the storage
	Zones []string // hosts that can use it; empty: all
}

// Node is a node as Kubernetes knows it.
type Node struct{ Name, ProviderID, SystemUUID string }

// Create creates a volume for a claim whose first pod is on a host.
func (c *Controller) Create(ctx context.Context, name, storage, host string, bytes int64) (Volume, error) {
	all, err := c.resources(ctx, "storage")
	if err != nil {
		return Volume{}, err
	}
	i := slices.IndexFunc(all, func(r resource) bool { return r.Storage == storage })
	if i < 0 {
		return Volume{}, errors.New("failed to get proxmox storage config: not found")
	}
	out, shared := Volume{Zones: []string{host}}, all[i].Shared == 1
	if shared {
		switch all[i].Plugin {
		case "cifs", "pbs":
			return Volume{}, errors.New("error: shared storage type cifs, pbs are not supported")
		}
		var config struct {
			Nodes string `json:"nodes"`
		}
		if err := c.call(ctx, http.MethodGet, "/storage/"+storage, nil, &config); err != nil {
			return Volume{}, err
		}
		out.Zones = slices.DeleteFunc(strings.Split(config.Nodes, ","), func(n string) bool { return n == "" })
	}
	disk := fmt.Sprintf("vm-%d-%s", c.vmid, name)
	if slices.Contains([]string{"dir", "nfs", "cifs", "cephfs", "btrfs"}, all[i].Plugin) {
		disk = fmt.Sprintf("%d/%s.raw", c.vmid, disk)
	}
	v := volume{c.config.Region, host, storage, disk}
	size, err := c.size(ctx, v)
	if err != nil {
		return Volume{}, err
	}
	if size == 0 {
		file := disk[strings.LastIndexByte(disk, '/')+1:]
		err := c.call(ctx, http.MethodPost, fmt.Sprintf("/nodes/%s/storage/%s/content", host, storage),
			map[string]any{"vmid": c.vmid, "node": host, "storage": storage, "filename": file, "size": strconv.FormatInt(bytes/1024, 10)}, new(string))
		if err != nil {
			return Volume{}, fmt.Errorf("failed to create vm disk: unable to create disk for virtual machine: %w", err)
		}
		if size, err = c.size(ctx, v); err != nil || size == 0 {
			return Volume{}, errors.Join(errors.New("failed to get volume size after creation"), err)
		}
	}
	if out.ID = v.id(); shared {
		v.host = ""
		out.ID = v.id()
	}
	return out, nil
}

// Delete deletes a volume; one that does not exist is deleted.
func (c *Controller) Delete(ctx context.Context, id string) error {
	v, err := c.find(ctx, id)
	if err != nil || v == nil {
		return err
	}
	var task string
	if err := c.call(ctx, http.MethodDelete, fmt.Sprintf("/nodes/%s/storage/%s/content/%s", v.host, v.storage, v.disk), nil, &task); err != nil {
		return fmt.Errorf("failed to delete volume: %s, %w", id, err)
	}
	return c.wait(ctx, v.host, task)
}

// Attach attaches a volume to a node's machine, and returns the slot.
func (c *Controller) Attach(ctx context.Context, id string, n Node) (slot string, err error) {
	vm, err := c.machine(ctx, n)
	if err != nil {
		return "", err
	}
	v, err := c.find(ctx, id)
	if err != nil {
		return "", err
	}
	if v == nil {
		return "", fmt.Errorf("volume %s not found", id)
	}
	config, err := c.vmConfig(ctx, vm)
	if err != nil {
		return "", err
	}
	if slot := slotOf(config, v.disk); slot != "" {
		return slot, nil
	}
	lun := 1
	for ; lun < 30 && config["scsi"+strconv.Itoa(lun)] != nil; lun++ {
		continue
	}
	if lun == 30 {
		return "", errors.New("no free lun found")
	}
	slot = "scsi" + strconv.Itoa(lun)
	value := fmt.Sprintf("%s:%s,backup=0,discard=on,iothread=1,replicate=0,ssd=1,wwn=0x%s", v.storage, v.disk, hex.EncodeToString(fmt.Appendf(nil, "PVC-ID%02d", lun)))
	var task string
	if err := c.call(ctx, http.MethodPost, vm.path()+"/config", map[string]any{slot: value}, &task); err != nil {
		return "", fmt.Errorf("unable to attach disk: %w", err)
	}
	if err := c.wait(ctx, vm.Node, task); err != nil {
		return "", fmt.Errorf("unable to attach virtual machine disk: %w", err)
	}
	if config, err = c.vmConfig(ctx, vm); err == nil && slotOf(config, v.disk) == "" {
		err = fmt.Errorf("volume %s is not attached to VM %d", id, vm.VMID)
	}
	return slot, err
}

// Detach detaches a volume from a node's machine.
func (c *Controller) Detach(ctx context.Context, id string, n Node) error {
	v, err := c.find(ctx, id)
	if err != nil || v == nil {
		return err
	}
	vm, err := c.machine(ctx, n)
	if err != nil {
		return err
	}
	config, err := c.vmConfig(ctx, vm)
	if err != nil {
		return err
	}
	slot := slotOf(config, v.disk)
	if slot == "" {
		return nil
	}
	var task string
	if err := c.call(ctx, http.MethodPut, vm.path()+"/unlink", map[string]any{"idlist": slot}, &task); err != nil {
		return fmt.Errorf("failed to unlink disk: %w", err)
	}
	if config, err = c.vmConfig(ctx, vm); err == nil && slotOf(config, v.disk) != "" {
		err = fmt.Errorf("volume %s still attached to VM %d", id, vm.VMID)
	}
	return err
}

// Grow grows a volume, which has to be attached.
func (c *Controller) Grow(ctx context.Context, id string, bytes int64) error {
	v, err := c.find(ctx, id)
	if err != nil {
		return err
	}
	if v == nil {
		return fmt.Errorf("volume %s not found", id)
	}
	all, err := c.resources(ctx, "vm")
	if err != nil {
		return err
	}
	for _, vm := range all {
		if vm.Type != "qemu" || vm.Template == 1 || vm.VMID == c.vmid || vm.Node != v.host {
			continue
		}
		config, err := c.vmConfig(ctx, vm)
		if err != nil {
			return err
		}
		slot := slotOf(config, v.disk)
		if slot == "" {
			continue
		}
		var task string
		if err := c.call(ctx, http.MethodPut, vm.path()+"/resize", map[string]any{"disk": slot, "size": fmt.Sprintf("%dM", bytes>>20)}, &task); err != nil {
			return fmt.Errorf("unable to resize virtual machine disk: %w", err)
		}
		return c.wait(ctx, v.host, task)
	}
	return errors.New("cannot resize unpublished")
}
