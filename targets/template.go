package targets

import (
	"context"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// Template is what the nodes are cloned from.
type Template mg.Namespace

// List shows the cluster's templates: their contents, age, and the machines linked to them. Flags: -spec=FILE -json.
func (Template) List(ctx context.Context, spec *string, json *bool) error {
	return with(ctx, options(spec, json, nil, nil), (*session.Session).TemplateList)
}

// Prune removes unused templates, ISOs and images from every host. Flags: -spec=FILE -yes -json -nowait.
func (Template) Prune(ctx context.Context, spec *string, yes, json, nowait *bool) error {
	o := options(spec, json, yes, nil)
	o.NoWait = value(nowait)
	return with(ctx, o, (*session.Session).TemplatePrune)
}
