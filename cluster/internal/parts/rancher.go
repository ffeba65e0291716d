package parts

import (
	"context"
	"errors"
	"strings"

	"github.com/cps-gpu/homelab/kube"
)

// isProvider reports whether an object is a way to sign in to Rancher.
func isProvider(ref kube.Ref) bool {
	return ref.Kind == "AuthConfig" && strings.HasPrefix(ref.APIVersion, "management.cattle.io/")
}

// removeObject deletes an object, but of Rancher's provider only the fields that homelab has set. Of a deleted one Rancher
// removes nothing. One that loses its field enabled is disabled for it: it resets the rest, and deletes the users who came
// by it, with their tokens and memberships (pkg/controllers/management/auth/auth_config.go, pkg/auth/cleanup).
func removeObject(ctx context.Context, client *kube.Client, ref kube.Ref) error {
	u := objectOf(ref)
	if !isProvider(ref) {
		return client.Delete(ctx, u)
	}
	err := client.Get(ctx, u.DeepCopy())
	if errors.Is(err, kube.ErrNotFound) || errors.As(err, new(*kube.NoKindError)) { // Rancher is gone
		return nil
	}
	if err == nil {
		_, err = client.Apply(ctx, u)
	}
	return err
}
