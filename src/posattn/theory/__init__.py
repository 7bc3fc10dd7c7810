"""What theory promises: bounds and closed-form dynamics, one file a result."""
