"""The pure functions over Arrow tables that compute every number. A change of a result raises KERNEL_VERSION."""
