"""The pure functions over Arrow tables that every number comes from. Whoever changes one raises KERNEL_VERSION."""
