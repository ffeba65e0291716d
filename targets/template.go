package targets

import (
	"context"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// Template is what the nodes are cloned from.
type Template mg.Namespace

// List shows the cluster's templates: their contents, age, and the machines linked to them.
func (Template) List(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	json *bool, // print data and events as lines of JSON
) error {
	return with(ctx, options(spec, json, nil), (*session.Session).TemplateList)
}

// Prune removes unused templates, ISOs and images from every host.
func (Template) Prune(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	yes *bool, // do not ask: agree to everything that is shown
	json *bool, // print data and events as lines of JSON
	nowait *bool, // end with exit code 4 if another run changes the same cluster or host, instead of waiting
) error {
	return withFlags(ctx, options(spec, json, nil), (*session.Session).TemplatePrune, changes(yes, nowait))
}
