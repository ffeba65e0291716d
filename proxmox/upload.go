package proxmox

import (
	"context"
	"fmt"
	"regexp"

	"github.com/cps-gpu/homelab/cluster/converge/progress"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

var isoName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*\.(iso|img)$`)

// Upload puts an ISO on a storage and returns its volume id. It overwrites a file of that name.
func (c *StorageClient) Upload(ctx context.Context, host, storage, fileName string, data []byte) (string, error) {
	if !isoName.MatchString(fileName) {
		return "", fmt.Errorf("ISO name %q: write letters, digits, _ . and -, and .iso at the end", fileName)
	}
	progress.Say(ctx, "uploading %s to %s on %s", fileName, storage, host)
	path := api.NodePath(host, "storage", storage, "upload")
	// An upload overwrites the file, so a retry is safe.
	err := c.pve.Settle(ctx, host, "", func() error {
		upid, err := c.pve.SendFile(ctx, path, fileName, data)
		if err != nil {
			return err
		}
		return c.pve.Wait(ctx, upid)
	}, func() (bool, error) { return false, nil })
	c.pve.Forget(path)
	if err != nil {
		return "", c.explainStorage(ctx, host, storage, "iso", fmt.Errorf("upload %s: %w", fileName, err))
	}
	return storage + ":iso/" + fileName, nil
}
