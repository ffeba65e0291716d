package proxmoxcsi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// volume is the parts of a volume's ID. Without a host, any that has the storage does.
type volume struct{ region, host, storage, disk string }

func (v volume) id() string { return strings.Join([]string{v.region, v.host, v.storage, v.disk}, "/") }

// find returns the volume of an ID, with a host; nil: it does not exist.
func (c *Controller) find(ctx context.Context, id string) (*volume, error) {
	parts := strings.SplitN(id, "/", 4)
	if len(parts) != 4 {
		return nil, fmt.Errorf("VolumeID must be in the format of region/zone/storageName/diskName")
	}
	v := volume{parts[0], parts[1], parts[2], parts[3]}
	if v.region != c.config.Region {
		return nil, fmt.Errorf("proxmox cluster %s not found", v.region)
	}
	hosts := []string{v.host}
	if v.host == "" {
		all, err := c.resources(ctx, "storage")
		if err != nil {
			return nil, err
		}
		hosts = nil
		for _, r := range all {
			if r.Storage == v.storage && r.Status == "available" {
				hosts = append(hosts, r.Node)
			}
		}
	} else {
		var nodes []struct {
			Node string `json:"node"`
		}
		if err := c.call(ctx, http.MethodGet, "/nodes", nil, &nodes); err != nil {
			return nil, err
		}
	}
	for _, host := range hosts {
		v.host = host
		size, err := c.size(ctx, v)
		if err != nil {
			return nil, err
		}
		if size > 0 {
			return &v, nil
		}
	}
	return nil, nil
}

// size returns a volume's size; 0: it does not exist.
func (c *Controller) size(ctx context.Context, v volume) (int64, error) {
	at := fmt.Sprintf("/nodes/%s/storage/%s", v.host, v.storage)
	if err := c.call(ctx, http.MethodGet, at+"/status", nil, new(map[string]any)); err != nil {
		return 0, err
	}
	var all []struct {
		ID   string `json:"volid"`
		Size int64  `json:"size"`
	}
	if err := c.call(ctx, http.MethodGet, at+"/content", nil, &all); err != nil {
		return 0, err
	}
	for _, one := range all {
		if one.ID == v.storage+":"+v.disk {
			return one.Size, nil
		}
	}
	return 0, nil
}

// resource is an entry of cluster/resources.
type resource struct {
	Type     string `json:"type"`
	Node     string `json:"node"`
	VMID     int    `json:"vmid"`
	Name     string `json:"name"`
	Template int    `json:"template"`
	Storage  string `json:"storage"`
	Plugin   string `json:"plugintype"`
	Shared   int    `json:"shared"`
	Status   string `json:"status"`
}

func (r resource) path() string { return fmt.Sprintf("/nodes/%s/qemu/%d", r.Node, r.VMID) }

func (c *Controller) resources(ctx context.Context, kind string) (out []resource, err error) {
	err = c.call(ctx, http.MethodGet, "/cluster/resources?type="+kind, nil, &out)
	return out, err
}

// machine finds the VM of a node: by the node's ID, or by its name and UUID (ProxmoxVMIDbyNode, FindVMByNode).
func (c *Controller) machine(ctx context.Context, n Node) (resource, error) {
	all, err := c.resources(ctx, "vm")
	if err != nil {
		return resource{}, err
	}
	rest, ours := strings.CutPrefix(n.ProviderID, "proxmox://")
	for _, r := range all {
		switch {
		case r.Type != "qemu" || r.Template == 1:
		case ours:
			if strconv.Itoa(r.VMID) == rest[strings.LastIndexByte(rest, '/')+1:] {
				return r, nil
			}
		case strings.HasPrefix(r.Name, n.Name):
			config, err := c.vmConfig(ctx, r)
			if err != nil {
				return resource{}, err
			}
			smbios, _ := config["smbios1"].(string)
			if slices.Contains(strings.Split(smbios, ","), "uuid="+n.SystemUUID) {
				return r, nil
			}
		}
	}
	return resource{}, fmt.Errorf("failed to get vm config: VM machine not found")
}

func (c *Controller) vmConfig(ctx context.Context, r resource) (map[string]any, error) {
	if err := c.call(ctx, http.MethodGet, r.path()+"/status/current", nil, new(map[string]any)); err != nil {
		return nil, err
	}
	var config map[string]any
	err := c.call(ctx, http.MethodGet, r.path()+"/config", nil, &config)
	return config, err
}

// slotOf returns the slot that a disk is in.
func slotOf(config map[string]any, disk string) string {
	for key, value := range config {
		text, _ := value.(string)
		if _, err := strconv.Atoi(strings.TrimPrefix(key, "scsi")); err == nil && strings.HasPrefix(key, "scsi") && strings.Contains(text, disk) {
			return key
		}
	}
	return ""
}

// wait waits for the end of a task. Not every request has one.
func (c *Controller) wait(ctx context.Context, host, task string) error {
	for task != "" {
		var status struct {
			Status string `json:"status"`
			Exit   string `json:"exitstatus"`
		}
		if err := c.call(ctx, http.MethodGet, fmt.Sprintf("/nodes/%s/tasks/%s/status", host, task), nil, &status); err != nil {
			return err
		}
		if status.Status == "stopped" {
			if status.Exit != "OK" {
				return fmt.Errorf("task failed: %s", status.Exit)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(c.poll):
		}
	}
	return nil
}

// call makes a request as the driver's library does: JSON in, JSON out.
func (c *Controller) call(ctx context.Context, method, path string, body, out any) error {
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.config.URL+path, in)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "PVEAPIToken="+c.config.TokenID+"="+c.config.TokenSecret)
	req.Header.Set("Content-Type", "application/json")
	res, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	switch {
	case err != nil:
		return err
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return fmt.Errorf("not authorized to access endpoint: %s %s: %s", method, path, res.Status)
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", res.Status, text)
	}
	data := struct {
		Data any `json:"data"`
	}{out}
	return json.Unmarshal(text, &data)
}
