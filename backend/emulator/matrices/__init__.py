"""What all matrix instructions share: layouts in shared memory, and what operands stand for."""
