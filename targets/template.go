package targets

import (
	"context"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// Template is what the nodes are cloned from.
type Template mg.Namespace

// List shows the cluster's templates: what is in each, its age, the machines that hang on it. Flags: -spec=FILE -json.
func (Template) List(ctx context.Context, spec *string, json *bool) error {
	return with(ctx, options(spec, json, nil, nil), (*session.Session).TemplateList)
}

// Prune removes templates, ISOs and images that nothing needs any more, on every host. Flags: -spec=FILE -yes -json -nowait.
func (Template) Prune(ctx context.Context, spec *string, yes, json, nowait *bool) error {
	o := options(spec, json, yes, nil)
	o.NoWait = value(nowait)
	return with(ctx, o, (*session.Session).TemplatePrune)
}
