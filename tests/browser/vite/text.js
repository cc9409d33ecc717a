export const text = 'first';
