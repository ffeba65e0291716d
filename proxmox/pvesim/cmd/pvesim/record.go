package main

import (
	"context"
	"errors"
)

func (p *program) record(ctx context.Context, args []string) error { return errors.New("not yet") }
