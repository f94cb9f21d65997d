//go:build tools

// Package tools pins the command of gofakes3 in go.mod and go.sum.
package tools

import _ "github.com/johannesboyne/gofakes3/cmd/gofakes3"
