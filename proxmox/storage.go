package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// Volume is a file or disk on a storage.
type Volume struct {
	ID      string // local:iso/seed.iso
	Content string // iso, import, images, …
	Format  string
	Size    Size
	VMID    int    // the VM that owns it, 0 if none
	Parent  string // for a linked clone: the volume that it depends on
}

// Name returns what follows the last slash of the id.
func (v Volume) Name() string { return v.ID[strings.LastIndexAny(v.ID, ":/")+1:] }

// Storage returns the storage that the id names.
func (v Volume) Storage() string {
	storage, _, _ := strings.Cut(v.ID, ":")
	return storage
}

// Volumes returns the volumes on a storage, with one kind of content or with any. The list is also
// empty if the token may not look: see Datastore.Audit in [StorageClient.List].
func (c *StorageClient) Volumes(ctx context.Context, host, storage, content string) ([]Volume, error) {
	query := url.Values{}
	if content != "" {
		query.Set("content", content)
	}
	type entry struct {
		VolID   string    `json:"volid"`
		Content string    `json:"content"`
		Format  string    `json:"format"`
		Size    wire.Int  `json:"size"`
		VMID    wire.Text `json:"vmid"`
		Parent  string    `json:"parent"`
	}
	all, err := api.GetShared[[]entry](ctx, c.pve, api.NodePath(host, "storage", storage, "content"), query)
	if err != nil {
		return nil, err
	}
	out := make([]Volume, len(all))
	for i, e := range all {
		out[i] = Volume{ID: e.VolID, Content: e.Content, Format: e.Format, Size: Size(e.Size), VMID: wire.Number(string(e.VMID), 0), Parent: e.Parent}
	}
	sortBy(out, func(a, b Volume) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// LinkedClones returns the VMIDs whose disks depend on a template's disks, sorted. A storage whose
// clones do not depend on their source (LVM-thin) reports none: there the template can be destroyed
// while its clones exist.
func (c *TemplateClient) LinkedClones(ctx context.Context, template *Summary) ([]int, error) {
	vm, err := c.read(ctx, template.Host, template.VMID, false)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	base := fmt.Sprintf("base-%d-disk-", template.VMID)
	var clones []int
	for _, storage := range vm.storagesInUse() {
		all, err := c.client.Storages.Volumes(ctx, template.Host, storage, "images")
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(all, func(v Volume) bool { return v.VMID == template.VMID }) {
			// The template's own disks exist, so a token that cannot see them cannot see its
			// clones' either.
			return nil, c.pve.IncompleteListError("/storage/"+storage, "Datastore.Audit",
				fmt.Sprintf("%s shows no disk of %s on %s", template.Host, vm, storage))
		}
		for _, v := range all {
			// On file storages the volume's id shows the link, by its path; other storages report
			// the parent.
			if v.VMID != template.VMID && (strings.Contains(v.Parent, base) || strings.Contains(v.ID, base)) {
				clones = append(clones, v.VMID)
			}
		}
	}
	slices.Sort(clones)
	return slices.Compact(clones), nil
}

// Storage is a storage as one host sees it.
type Storage struct {
	Name    string
	Type    string // dir, lvmthin, zfspool, nfs, …
	Content []string
	Shared  bool
	Enabled bool // not switched off, and meant for this host
	Active  bool // enabled, and it answers
	Total   Size
	Free    Size
}

// List returns the storages of a host that the token may see (Datastore.Audit).
func (c *StorageClient) List(ctx context.Context, host string) ([]Storage, error) {
	type entry struct {
		Storage string    `json:"storage"`
		Type    string    `json:"type"`
		Content string    `json:"content"`
		Shared  wire.Bool `json:"shared"`
		Enabled wire.Bool `json:"enabled"`
		Active  wire.Bool `json:"active"`
		Total   wire.Int  `json:"total"`
		Avail   wire.Int  `json:"avail"`
	}
	all, err := api.GetShared[[]entry](ctx, c.pve, api.NodePath(host, "storage"), nil)
	if err != nil {
		return nil, err
	}
	out := make([]Storage, len(all))
	for i, e := range all {
		content := strings.Split(e.Content, ",")
		slices.Sort(content)
		out[i] = Storage{Name: e.Storage, Type: e.Type, Content: content, Shared: bool(e.Shared), Enabled: bool(e.Enabled), Active: bool(e.Active), Total: Size(e.Total), Free: Size(e.Avail)}
	}
	return out, nil
}

// Delete deletes a file or disk. A missing one is not an error.
func (c *StorageClient) Delete(ctx context.Context, host, id string) error {
	storage, _, found := strings.Cut(id, ":")
	if !found {
		return fmt.Errorf("volume %q: write storage:path", id)
	}
	path := api.NodePath(host, "storage", storage, "content", id)
	var answer *string
	err := c.pve.Call(ctx, http.MethodDelete, path, nil, &answer)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil || answer == nil || *answer == "" {
		return err
	}
	upid, err := api.ParseUPID(*answer)
	if err != nil {
		return err
	}
	defer c.pve.Invalidate(path)
	return c.pve.Wait(ctx, upid)
}

// explainStorage adds to err what a storage does not support, if that is the cause.
func (c *StorageClient) explainStorage(ctx context.Context, host, storage, content string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	all, lookErr := c.List(ctx, host)
	if lookErr != nil {
		return err
	}
	for _, s := range all {
		if s.Name != storage {
			continue
		}
		if !slices.Contains(s.Content, content) {
			return fmt.Errorf("%w\n  storage %s does not take %s; let it: pvesm set %s --content %s", err, storage, content, printable.Word(storage),
				printable.Word(strings.Join(append(slices.Clone(s.Content), content), ",")))
		}
		return err
	}
	return fmt.Errorf("%w\n  %s has no storage %s, or the token may not see it (Datastore.Audit)", err, host, storage)
}

var isoName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*\.(iso|img)$`)

// Upload puts an ISO on a storage and returns its volume id. It overwrites a file of that name.
func (c *StorageClient) Upload(ctx context.Context, host, storage, fileName string, data []byte) (string, error) {
	if !isoName.MatchString(fileName) {
		return "", fmt.Errorf("ISO name %q: write letters, digits, _ . and -, and .iso at the end", fileName)
	}
	converge.Progressf(ctx, "uploading %s to %s on %s", fileName, storage, host)
	path := api.NodePath(host, "storage", storage, "upload")
	// An upload overwrites the file, so a retry is safe.
	err := c.pve.Retry(ctx, host, "", func() error {
		upid, err := c.pve.SendFile(ctx, path, fileName, data)
		if err != nil {
			return err
		}
		return c.pve.Wait(ctx, upid)
	}, func() (bool, error) { return false, nil })
	c.pve.Invalidate(path)
	if err != nil {
		return "", c.explainStorage(ctx, host, storage, "iso", fmt.Errorf("upload %s: %w", fileName, err))
	}
	return storage + ":iso/" + fileName, nil
}
