package mirror

import (
	"context"

	"oras.land/oras-go/v2"

	"github.com/cps-gpu/homelab/kube/helm"
)

// charts is the folder of charts in a registry: one is charts/NAME:VERSION there.
const charts = "charts"

// Chart copies the archive of a chart to the registry, under the chart's name.
func (c Copier) Chart(ctx context.Context, name string, archive []byte) (Outcome, error) {
	at := charts + "/" + name
	to, err := repository(c.Destination, c.To, at, c.PlainHTTP)
	if err != nil {
		return Outcome{}, err
	}
	copied, err := helm.Push(ctx, to, archive, c.Replace)
	if err != nil {
		return Outcome{}, c.explain(at, &oras.CopyError{Op: "Push", Origin: oras.CopyErrorOriginDestination, Err: err})
	}
	return Outcome{at, int64(copied)}, nil
}
