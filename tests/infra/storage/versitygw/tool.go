//go:build tools

// Package tools pins the command of versitygw in go.mod and go.sum.
package tools

import _ "github.com/versity/versitygw/cmd/versitygw"
